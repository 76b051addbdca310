/**
 * Keeps a script alive while it waits for child processes, which would not keep Node from exiting during an `await`.
 */
setInterval(() => {}, 1_000);
