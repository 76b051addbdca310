import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError } from '../api.ts';
import { Failure } from './texts.tsx';

interface ReasonDialogProps {
  /** Also what the button that makes the change says. */
  readonly title: string;
  /** What the change will touch, and its fields. */
  readonly children: ComponentChildren;
  /** @returns what was done @throws ApiError */
  readonly make: (reason: string) => Promise<string>;
  /** With what was done; undefined: nothing was. */
  readonly onClose: (done?: string) => void;
}

/** Asks for the reason of a change before it is made. */
export function ReasonDialog({ title, children, make, onClose }: ReasonDialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const done = useRef<string | undefined>(undefined); // the dialog closes by itself, so that the focus returns to where it was opened
  const [reason, setReason] = useState('');
  const [problem, setProblem] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  useEffect(() => dialog.current?.showModal(), []);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    try {
      done.current = await make(reason);
      dialog.current?.close();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setProblem(error.message);
      setBusy(false);
    }
  };
  return (
    <dialog ref={dialog} aria-labelledby="change-title" onClose={() => onClose(done.current)}>
      <form onSubmit={(event) => void submit(event)}>
        <h2 id="change-title">{title}</h2>
        {children}
        <label class="field">
          Reason
          <input
            required
            maxLength={500}
            value={reason}
            onInput={({ currentTarget }) => setReason(currentTarget.value)}
          />
        </label>
        <p class="dim">The reason is written to the audit log, with the name of your token.</p>
        <Failure message={problem} />
        <div class="row end">
          <button type="button" onClick={() => dialog.current?.close()}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={isBusy}>
            {title}
          </button>
        </div>
      </form>
    </dialog>
  );
}
