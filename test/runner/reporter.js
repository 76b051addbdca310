import { readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { longestFirst, MAX_SUITE_SECONDS, recordedSeconds, recordSeconds, suitesThatTakeTooLong } from './durations.js';

const SLOWEST = 10;

/**
 * Prints at the end of a run what took longest, what passed only at the second try, and what was skipped and why. Fails
 * `npm test` if a suite is recorded as too long for it. RECORD_DURATIONS=1 writes durations.json.
 */
export default class Reporter {
  #rootDir;
  /** Whether only tests of a given name ran. */
  #isFiltered;
  #tooLong = [];

  constructor({ rootDir, testNamePattern }) {
    this.#rootDir = rootDir;
    this.#isFiltered = Boolean(testNamePattern);
  }

  onRunComplete(_, { testResults, numPassedTests, numFailedTests, numPendingTests, numRuntimeErrorTestSuites }) {
    const seconds = secondsBySuite(testResults);
    const secondTries = testsOf(testResults).filter(({ invocations }) => invocations > 1);
    if (process.env.RECORD_DURATIONS === '1') recordSeconds(seconds);
    if (process.env.TESTS === 'short') this.#tooLong = suitesThatTakeTooLong(recordedOf(seconds));
    const failed = numFailedTests + numRuntimeErrorTestSuites;
    const lines = [
      ...section('Slowest suites:', this.#describe(longestFirst(seconds).slice(0, SLOWEST))),
      ...section('Passed only at the second try:', this.#unsteady(secondTries)),
      ...section('Skipped:', this.#skipped(testResults)),
      ...section(
        `Longer than ${MAX_SUITE_SECONDS} s on a quiet machine: make them faster, or name them *.long.test.ts:`,
        this.#describe(this.#tooLong),
      ),
      `${numPassedTests} passed, ${failed} failed, ${numPendingTests} skipped`,
    ];
    process.once('exit', () => process.stdout.write(`\n${lines.join('\n')}\n`)); // Jest prints its own summary last
  }

  getLastError() {
    return this.#tooLong.length > 0 ? new Error('suites take too long') : undefined;
  }

  #describe(suites) {
    return suites.map(([path, seconds]) => `${seconds.toFixed(1).padStart(6)} s  ${this.#name(path)}`);
  }

  #unsteady(secondTries) {
    return secondTries
      .filter(({ status }) => status === 'passed')
      .map(({ path, fullName }) => `${this.#name(path)}: ${fullName}`);
  }

  /** Suites that miss a tool, with what they miss; other skipped tests give their reason in their titles. */
  #skipped(testResults) {
    const missing = missingTools();
    const withoutTool = [...missing].map(([path, tools]) => `${this.#name(path)}: ${tools.join('; ')}`);
    if (this.#isFiltered) return withoutTool;
    const byTitle = testsOf(testResults)
      .filter(({ path, status }) => status === 'pending' && !missing.has(path))
      .map(({ path, fullName }) => `${this.#name(path)}: ${fullName}`);
    return [...withoutTool, ...byTitle];
  }

  #name(path) {
    return relative(this.#rootDir, path);
  }
}

/** The recorded seconds of the suites that ran. */
function recordedOf(suites) {
  const recorded = recordedSeconds();
  return suites.filter(([path]) => recorded.has(path)).map(([path]) => [path, recorded.get(path)]);
}

const section = (title, rows) => (rows.length > 0 ? [title, ...rows.map((row) => `  ${row}`), ''] : []);

const testsOf = (testResults) =>
  testResults.flatMap(({ testFilePath: path, testResults: tests }) => tests.map((test) => ({ path, ...test })));

/** [path, seconds] of each suite. One that ran in two projects counts with the longer run. */
function secondsBySuite(testResults) {
  const seconds = new Map();
  for (const { testFilePath, perfStats } of testResults)
    seconds.set(testFilePath, Math.max(perfStats.runtime / 1_000, seconds.get(testFilePath) ?? 0));
  return [...seconds];
}

/** What environment.cjs kept, by path. */
function missingTools() {
  const missing = new Map();
  for (const line of linesOf(join(process.env.TMPDIR, 'missing-tools'))) {
    const { path, missing: tool } = JSON.parse(line);
    missing.set(path, [...(missing.get(path) ?? []), tool]);
  }
  return missing;
}

function linesOf(file) {
  try {
    return readFileSync(file, 'utf8').trimEnd().split('\n');
  } catch {
    return []; // no tool is missing
  }
}
