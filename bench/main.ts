/** Runs a program: an error ends it with exit code 1, and its message alone. */
export function runMain(main: () => Promise<void>): void {
  main().catch((error: Error) => {
    console.error(error.message);
    process.exitCode = 1;
  });
}
