// `npm start`: installs and builds what is missing, then becomes the server.
import { buildMissing } from './build-missing.mjs';
import { becomeNode, installMissing } from './install.mjs';

installMissing('runtime');
buildMissing();
becomeNode('src/main.ts', process.argv.slice(2));
