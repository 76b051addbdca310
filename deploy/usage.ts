/** Prints a script's usage and ends the process, if the arguments include --help or -h. */
export function showHelp(usage: string): void {
  if (!process.argv.slice(2).some((argument) => argument === '--help' || argument === '-h')) return;
  process.stdout.write(usage);
  process.exit(0);
}

/**
 * The same, and ends the process with 1 on an unknown argument.
 *
 * @param usage         the whole text, which begins with `Usage: npm run …`
 * @param maxArguments  how many plain arguments the script takes
 */
export function showUsage(usage: string, maxArguments = 0): void {
  showHelp(usage);
  const given = process.argv.slice(2);
  const wrong = given.find((argument) => argument.startsWith('-')) ?? given[maxArguments];
  if (wrong === undefined) return;
  process.stderr.write(`unexpected argument '${wrong}'\n\n${usage}`);
  process.exit(1);
}
