// On CI, a test that fails runs once more.
if (process.env.CI === 'true') jest.retryTimes(1, { logErrorsBeforeRetry: true });
