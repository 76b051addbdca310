/** Starts the apps that the arguments name after the target and `onError`. */
for (const name of process.argv.slice(4)) await import(`./${name}.ts`);
