import { script } from '../../src/parts/redis/script.ts';

/** Prints the script that Redis runs for batches, with the numbers of its lines. */
for (const [at, line] of script.text.split('\n').entries()) console.log(`${at + 1}\t${line}`);
