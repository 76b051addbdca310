/**
 * The thread of probe.mjs: writes each sample to file descriptor 3 as a line of JSON, and reads a command per line from
 * it.
 */
import { Session } from 'node:inspector';
import { Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { parentPort, workerData } from 'node:worker_threads';

const session = new Session();
session.connectToMainThread();

const channel = new Socket({ fd: 3, readable: true, writable: true });
channel.on('error', () => {}); // 'close' comes next
channel.on('close', () => process.kill(process.pid, 'SIGKILL')); // the process that started the attack has ended

let isWaiting = false;

/** Takes one sample at a time: native code may delay the answer for longer than the interval. */
function sample(kind) {
  if (isWaiting && kind === 'sample') return;
  isWaiting = true;
  session.post('Runtime.evaluate', { expression: 'attackProbe()', returnByValue: true }, (error, answer) => {
    isWaiting = false;
    const isTaken = !error && !answer.exceptionDetails; // reading memory needs a free file descriptor
    if (isTaken) channel.write(`{"kind":"${kind}","atMs":${Date.now()},"sample":${answer.result.value}}\n`);
  });
}

setInterval(sample, workerData.intervalMs, 'sample');
createInterface({ input: channel }).on('line', (command) => parentPort.postMessage(command));
parentPort.on('message', () => sample('collected'));
