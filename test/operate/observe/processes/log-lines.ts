import { argv, exit, stdin, stdout } from 'node:process';
import { createLogger } from '../../../../src/operate/observe/log.ts';

// Logs lines of a thousand characters, says so, and ends when its input does: at once, or when what waited is written.
const [, , lines, then] = argv;
const log = createLogger({ level: 'info', format: 'json' });
for (let line = 0; line < Number(lines); line++) log.info('x'.repeat(1_000));
stdout.write('logged\n');
stdin.resume().once('end', () => {
  if (then === 'exits') exit();
  else setTimeout(exit, 6_000);
});
