// Adds to package-lock.json the platform variants that npm leaves out when it cannot reach them (npm forgets optional packages it did not
// resolve, and `npm ci` then refuses the file everywhere). Run it after a change of the dependencies; it changes nothing when none is missing.
import { readFileSync, writeFileSync } from 'node:fs';

const lockPath = new URL('../package-lock.json', import.meta.url);
const lock = JSON.parse(readFileSync(lockPath, 'utf8'));
const missing = missingVariants(lock.packages);
Object.assign(lock.packages, missing);
lock.packages = Object.fromEntries(Object.entries(lock.packages).sort(([a], [b]) => a.localeCompare(b, 'en')));
writeFileSync(lockPath, `${JSON.stringify(lock, null, 2)}\n`);
console.log(`${Object.keys(missing).length} platform variants added`);

function missingVariants(packages) {
  const found = {};
  for (const entry of Object.values(packages)) {
    for (const [name, version] of Object.entries(entry.optionalDependencies ?? {})) {
      const path = `node_modules/${name}`;
      if (packages[path] || !/^\d+\.\d+\.\d+$/.test(version)) continue;
      const { cpu, libc, os } = platformOf(name);
      found[path] = { version, cpu, dev: entry.dev, libc, optional: true, os };
    }
  }
  return found;
}

// The names say it: `@rolldown/binding-linux-arm64-musl`, `@biomejs/cli-win32-x64`.
function platformOf(name) {
  const words = name.slice(name.lastIndexOf('/') + 1).split('-');
  const at = words.findIndex((word) => ['android', 'darwin', 'freebsd', 'linux', 'openharmony', 'wasm32', 'win32'].includes(word));
  if (at < 0) throw new Error(`cannot read a platform from the name ${name}`);
  if (words[at] === 'wasm32') return { cpu: ['wasm32'] };
  const libc = words.at(-1)?.startsWith('musl') ? ['musl'] : words.at(-1)?.startsWith('gnu') ? ['glibc'] : undefined;
  return { cpu: [words[at + 1]], libc: words[at] === 'linux' ? libc : undefined, os: [words[at]] };
}
