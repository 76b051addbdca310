import { batch, signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import type { Answers } from '../../../src/operate/answers/all.ts';
import type { RuleProblems, TriedCandidate } from '../../../src/parts/candidate/answers.ts';
import { ApiError, get } from '../api.ts';
import { exact } from '../format.ts';
import { rules } from '../live.ts';
import { CodeField, countLines, showPlace } from '../parts/code-field.tsx';
import { CopyButton } from '../parts/copy-button.tsx';
import { save } from '../parts/save.ts';
import { Problems } from '../parts/text-problems.tsx';
import { Failure, Value } from '../parts/texts.tsx';
import { type CheckState, useCheck } from '../parts/use-check.ts';
import { mayOperate } from '../session.ts';

const MIN_ROWS = 8;
const MAX_ROWS = 24;

/** The edited text, kept while other views are shown. */
const draft = signal('');
/** The previous text, before another one replaced it. */
const replaced = signal<string | undefined>(undefined);
/** The text at the start of the edit. */
const begunWith = signal<string | undefined>(undefined);
const files = signal<Answers['GET /api/v1/rules/text']['files']>([]);
const domain = signal<string | undefined>(undefined);
const failure = signal<string | undefined>(undefined);

function begin(found: string): void {
  const text = found.replace(/\r\n?/g, '\n'); // like the value of a textarea
  batch(() => {
    replaced.value = draft.peek() !== (begunWith.peek() ?? '') && draft.peek() !== text ? draft.peek() : undefined;
    begunWith.value = text;
    draft.value = text;
    failure.value = undefined;
  });
}

/** Runs a request to the service, and keeps its error. */
async function attempt(run: () => Promise<void>): Promise<void> {
  try {
    await run();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    failure.value = error.message;
  }
}

const beginFromRules = (name: string): Promise<void> =>
  attempt(async () => {
    const found = await get('rules/text', { domain: name });
    files.value = found.files;
    begin(found.files[0]?.text ?? '');
  });

const beginFromCandidate = (): Promise<void> => attempt(async () => begin((await get('candidate/text')).text));

interface CandidateEditorProps {
  readonly candidate: TriedCandidate;
  readonly onLoad: (text: string, domain: string) => void;
}

/** An editor for a candidate's rule file, which starts with the current rules and checks the text while typing. */
export function CandidateEditor({ candidate, onLoad }: CandidateEditorProps) {
  const { origin, state } = candidate;
  const field = useRef<HTMLTextAreaElement>(null);
  const text = draft.value;
  const checked = useCheck(text);
  const names = [...new Set(rules.value?.rules.map((rule) => rule.domain))];
  const first = domain.value ?? candidate.domains[0] ?? names[0];
  const isSent = origin === 'api' && state !== 'off';
  useEffect(() => {
    if (begunWith.peek() !== undefined || first === undefined) return;
    begunWith.value = '';
    void (isSent ? beginFromCandidate() : beginFromRules(first));
  }, [first, isSent]);
  return (
    <section class="panel">
      <h2>Rules to try</h2>
      <div class="row with-field actions-row">
        <label class="field">
          Domain
          <select value={first} onChange={({ currentTarget }) => (domain.value = currentTarget.value)}>
            {names.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <button type="button" disabled={first === undefined} onClick={() => first && void beginFromRules(first)}>
          Start from the rules in force
        </button>
        {isSent && (
          <button type="button" onClick={() => void beginFromCandidate()}>
            Start from the candidate
          </button>
        )}
        {replaced.value !== undefined && (
          <button
            type="button"
            onClick={() => {
              begin(replaced.peek() ?? '');
              field.current?.focus(); // the button has disappeared
            }}
          >
            Undo: restore my text
          </button>
        )}
      </div>
      <Failure message={failure.value} />
      {files.value.length > 1 && (
        <div class="notice warn">
          The rules of the domain are in {files.value.length} files. A candidate is a single file: copy into it what it
          needs from the others.
          <ul>
            {files.value.map((file) => (
              <li key={file.name}>
                <button type="button" class="quiet" onClick={() => begin(file.text)}>
                  {file.name}
                </button>
              </li>
            ))}
          </ul>
        </div>
      )}
      <CodeField
        label="Rules, YAML"
        text={text}
        rows={Math.min(Math.max(countLines(begunWith.value ?? '') + 2, MIN_ROWS), MAX_ROWS)}
        marked={markedLines(checked.check?.problems ?? [])}
        describedBy="check-result"
        isWrong={checked.check?.ok === false}
        field={field}
        onInput={(typed) => (draft.value = typed)}
      />
      <CheckResult checked={checked} />
      {checked.check && (
        <Problems
          found={checked.check}
          onChoose={({ line = 1, column = 1 }) => field.current && showPlace(field.current, line, column)}
        />
      )}
      <div class="row actions-row">
        <button
          type="button"
          class="primary"
          disabled={!mayOperate.value || !checked.isCurrent || !checked.check?.ok}
          onClick={() => onLoad(text, checked.check?.domain ?? '')}
        >
          Load as candidate…
        </button>
        <CopyButton text={text} of="the rules, YAML" label="Copy YAML" />
        <button type="button" class="quiet" onClick={() => download(text, checked.check?.domain)}>
          Download
        </button>
      </div>
      <PutInForce isOpen={state === 'on'} />
    </section>
  );
}

function CheckResult({ checked: { check, failure: why, isCurrent } }: { readonly checked: CheckState }) {
  const errors = check?.problems.filter(({ severity }) => severity === 'error').length ?? 0;
  const warnings = (check?.problems.length ?? 0) - errors;
  const number = (of: number, what: string): string => `${exact(of)} ${what}${of === 1 ? '' : 's'}`;
  return (
    <p id="check-result" role="status" class={isCurrent && errors > 0 ? 'bad-text' : 'dim'}>
      {!isCurrent && (draft.value === '' ? 'There is no text.' : 'Checking…')}
      {isCurrent && why !== undefined && `It cannot be checked: ${why}`}
      {isCurrent && check && !check.ok && number(errors, 'error')}
      {isCurrent && check?.ok && (
        <>
          {number(check.rules ?? 0, 'rule')} of <Value text={check.domain ?? ''} />, no error
        </>
      )}
      {isCurrent && warnings > 0 && `, ${number(warnings, 'warning')}`}
    </p>
  );
}

/** The lines of the text that have problems; an error hides a warning. */
function markedLines(problems: RuleProblems['problems']): ReadonlyMap<number, 'error' | 'warning'> {
  const marked = new Map<number, 'error' | 'warning'>();
  for (const { file, line = 1, severity } of problems)
    if (file === undefined && marked.get(line) !== 'error') marked.set(line, severity);
  return marked;
}

/** Saves a text under the name of its domain. */
const download = (text: string, name = 'rules'): void =>
  save(`${name.replace(/[^\w.-]/g, '_')}.yaml`, 'application/yaml', text);

function PutInForce({ isOpen }: { readonly isOpen: boolean }) {
  const [only, ...others] = files.value;
  return (
    <details open={isOpen}>
      <summary>Put it in force</summary>
      <ol class="steps">
        <li>
          Compare it with the rules in force: <code>npx weir candidate diff</code>
        </li>
        <li>
          Download it as a patch above, once requests have been tried: its message says what was tried; or copy the
          YAML.
        </li>
        <li>
          Replace the rules at their source with it
          {only && others.length === 0 && (
            <>
              , here <code>{only.name}</code>
            </>
          )}
          : the service reloads changed files.
        </li>
        <li>Clear the candidate.</li>
      </ol>
    </details>
  );
}
