const { appendFileSync } = require('node:fs');
const { join } = require('node:path');
const vm = require('node:vm');
const { TestEnvironment } = require('jest-environment-node');

/** Begins the message of a MissingTool: see ../helpers/tools.ts. It may be in the output of a program that a test ran. */
const MISSING = /not installed: .*/;

/**
 * Jest's environment for Node, with two differences:
 *
 * - The global object is an ordinary one. In Jest's own, looking up a global such as `Number` or `Map` takes
 *   microseconds, a third of the time of suites that compute.
 * - A test that fails because a tool is not installed is skipped, and the reason is kept for reporter.js. On CI it fails.
 */
module.exports = class extends TestEnvironment {
  #path;
  #missing;

  constructor(config, context) {
    const { createContext } = vm;
    vm.createContext = () => createContext(vm.constants.DONT_CONTEXTIFY);
    try {
      super(config, context);
    } finally {
      vm.createContext = createContext;
    }
    this.#path = context.testPath;
  }

  handleTestEvent({ name, test, hook }, { unhandledErrors }) {
    if (process.env.CI === 'true') return;
    if (name === 'test_done') this.#skipWithoutTool(test);
    else if (name === 'hook_failure' && hook.type === 'afterAll' && this.#missing) unhandledErrors.pop(); // it ends what was never started
  }

  #skipWithoutTool(test) {
    const [missing] = MISSING.exec(test.errors.flat().map(textOf).join('\n')) ?? [];
    if (missing === undefined) return;
    test.errors = [];
    test.status = 'skip';
    if (missing === this.#missing) return;
    this.#missing = missing;
    appendFileSync(join(process.env.TMPDIR, 'missing-tools'), `${JSON.stringify({ path: this.#path, missing })}\n`);
  }
};

const textOf = (error) => String(error?.stack ?? error?.message ?? error);
