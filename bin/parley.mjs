#!/usr/bin/env node
import { becomeNode, installMissing } from '../scripts/install.mjs';

installMissing('runtime');
becomeNode('src/cli/main.ts', process.argv.slice(2));
