import { becomeNode, installMissing } from './install.mjs';

installMissing('runtime');
becomeNode('src/main.ts', process.argv.slice(2));
