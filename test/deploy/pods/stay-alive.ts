/** Keeps a script alive while it waits for child processes: by themselves they do not, and Node would end it in the midst of an `await`. */
setInterval(() => {}, 1_000);
