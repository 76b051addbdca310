/** Runs a program. An error ends it with exit code 1 and prints only its message. */
export function runMain(main: () => Promise<void>): void {
  main().catch((error: Error) => {
    console.error(error.message);
    process.exitCode = 1;
  });
}
