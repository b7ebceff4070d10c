// Adds the packages for other platforms that are missing from package-lock.json: npm leaves out optional packages that it could not
// resolve, and `npm ci` then refuses the file everywhere. Run it after every change of the dependencies.
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

// Reads it from the name: `@rolldown/binding-linux-arm64-musl`, `@biomejs/cli-win32-x64`.
function platformOf(name) {
  const words = name.slice(name.lastIndexOf('/') + 1).split('-');
  const at = words.findIndex((word) => ['android', 'darwin', 'freebsd', 'linux', 'openharmony', 'wasm32', 'win32'].includes(word));
  if (at < 0) throw new Error(`cannot read a platform from the name ${name}`);
  if (words[at] === 'wasm32') return { cpu: ['wasm32'] };
  const libc = words.at(-1)?.startsWith('musl') ? ['musl'] : words.at(-1)?.startsWith('gnu') ? ['glibc'] : undefined;
  return { cpu: [words[at + 1]], libc: words[at] === 'linux' ? libc : undefined, os: [words[at]] };
}
