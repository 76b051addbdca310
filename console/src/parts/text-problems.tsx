import type { RuleProblem, RuleProblems } from '../../../src/parts/candidate/answers.ts';
import { exact } from '../format.ts';
import { State, Value } from './texts.tsx';

interface ProblemsProps {
  readonly found: RuleProblems;
  /** Called when a problem in the text itself is clicked. */
  readonly onChoose?: ((problem: RuleProblem) => void) | undefined;
}

/** Errors and warnings about rules, with their lines. */
export function Problems({ found: { problems, moreProblems }, onChoose }: ProblemsProps) {
  if (problems.length === 0) return null;
  return (
    <ul class="problems">
      {problems.map((problem, at) => (
        <li key={at}>
          <State is={problem.severity === 'error' ? 'bad' : 'warn'}>
            {problem.severity === 'error' ? 'Error' : 'Warning'}
          </State>{' '}
          {onChoose && problem.file === undefined ? (
            <button type="button" class="quiet" onClick={() => onChoose(problem)}>
              {placeOf(problem)}
            </button>
          ) : (
            <span class="dim">{placeOf(problem)}</span>
          )}{' '}
          <Value text={problem.message} whole />
          {problem.path !== '' && (
            <span class="dim">
              {' '}
              <Value text={problem.path} whole />
            </span>
          )}
        </li>
      ))}
      {moreProblems > 0 && <li>{exact(moreProblems)} more</li>}
    </ul>
  );
}

function placeOf({ file, line }: RuleProblem): string {
  if (file !== undefined) return line === undefined ? file : `${file}:${line}`;
  return line === undefined ? 'The file' : `Line ${line}`;
}
