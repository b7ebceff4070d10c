import { becomeNode, installMissing } from './install.mjs';

installMissing('all');
becomeNode('test/run/main.ts', process.argv.slice(2));
