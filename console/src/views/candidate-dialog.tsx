import type { TriedCandidate } from '../../../src/parts/candidate/answers.ts';
import { call } from '../api.ts';
import { ReasonDialog } from '../parts/reason-dialog.tsx';
import { Value } from '../parts/texts.tsx';

/** A requested change of the candidate. */
export type CandidateChange =
  | { readonly name: 'load'; readonly text: string; readonly domain: string }
  | { readonly name: 'clear' };

interface CandidateDialogProps {
  readonly change: CandidateChange;
  readonly candidate: TriedCandidate;
  /** Called with a description of the change; undefined: there was none. */
  readonly onClose: (done?: string) => void;
}

export function CandidateDialog({ change, candidate: { state, origin }, onClose }: CandidateDialogProps) {
  if (change.name === 'clear')
    return (
      <ReasonDialog
        title="Clear the candidate"
        make={async (reason) => {
          await call('DELETE /api/v1/candidate', { body: { reason } });
          return 'The candidate is off.';
        }}
        onClose={onClose}
      >
        <p>The trial ends, and its figures are lost. The rules in force and their counters are not affected.</p>
        {origin === 'file' && <p>It stays off until the files at CANDIDATE_RULES_PATH change.</p>}
      </ReasonDialog>
    );
  const { text, domain } = change;
  return (
    <ReasonDialog
      title="Load the candidate"
      make={async (reason) => {
        await call('POST /api/v1/candidate', { params: { reason }, body: text });
        return 'The candidate is loaded. It is tried on requests from now on.';
      }}
      onClose={onClose}
    >
      <p>
        These rules also decide the requests of <Value text={domain} />, after they are answered. Counters of the rules
        in force are not affected: the candidate has its own.
      </p>
      {state === 'on' && <p>It replaces the current candidate. Figures restart.</p>}
    </ReasonDialog>
  );
}
