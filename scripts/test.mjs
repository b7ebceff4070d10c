// `npm test`: installs and builds what is missing, then becomes the test runner.
import { buildMissing } from './build-missing.mjs';
import { becomeNode, installMissing } from './install.mjs';

installMissing('all');
buildMissing();
becomeNode('test/run/main.ts', process.argv.slice(2));
