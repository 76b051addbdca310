/**
 * Preloaded with `node --require`: counts how often each timer fires. On SIGUSR2, prints the counts as a line of JSON,
 * by the timer's milliseconds and the line of code that set it.
 */
const fired = {};

/** The first line of the stack outside this file. */
function placeOf({ stack = '' }) {
  const line = stack.split('\n').find((one) => one.startsWith('    at ') && !one.includes(__filename));
  return (line ?? '').trim();
}

for (const name of ['setTimeout', 'setInterval']) {
  const original = globalThis[name];
  const counting = (task, ms, ...args) => {
    const timer = `${ms} ms ${placeOf(new Error())}`;
    const count = (...values) => {
      fired[timer] = (fired[timer] ?? 0) + 1;
      return task(...values);
    };
    return original(count, ms, ...args);
  };
  globalThis[name] = Object.defineProperties(counting, Object.getOwnPropertyDescriptors(original));
}

process.on('SIGUSR2', () => console.log(`timers ${JSON.stringify(fired)}`));
