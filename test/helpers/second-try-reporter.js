/** Lists the tests that passed only at the second try, after the summary. Each is a defect of the test or the service. */
export default class SecondTryReporter {
  onRunComplete(_, { testResults }) {
    const unsteady = testResults.flatMap(({ testFilePath, testResults: tests }) =>
      tests
        .filter(({ status, invocations }) => status === 'passed' && invocations > 1)
        .map(({ fullName }) => `  ${testFilePath}: ${fullName}`),
    );
    if (unsteady.length > 0) process.stderr.write(`\nPassed only at the second try:\n${unsteady.join('\n')}\n`);
  }
}
