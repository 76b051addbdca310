/**
 * Prints how a script is used and ends the process, where its arguments ask for that; an argument that it does not take ends it with 1.
 *
 * @param usage         the whole text, which begins with `Usage: npm run …`
 * @param maxArguments  how many plain arguments the script takes
 */
export function showUsage(usage: string, maxArguments = 0): void {
  const given = process.argv.slice(2);
  if (given.includes('--help') || given.includes('-h')) {
    process.stdout.write(usage);
    process.exit(0);
  }
  const wrong = given.find((argument) => argument.startsWith('-')) ?? given[maxArguments];
  if (wrong === undefined) return;
  process.stderr.write(`unexpected argument '${wrong}'\n\n${usage}`);
  process.exit(1);
}
