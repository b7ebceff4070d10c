// `npm run faults`: the fault suite at full length, on both engines. `PARLEY_FAULT_SEED=n npm run faults` plays a run again.
process.env.PARLEY_FAULTS = 'long';
process.argv.push('test/acceptance/faults');
await import('./main.ts');
