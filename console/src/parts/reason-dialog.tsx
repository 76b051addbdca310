import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError } from '../api.ts';
import { Failure } from './texts.tsx';

interface ReasonDialogProps {
  /** Also the label of the button that makes the change. */
  readonly title: string;
  /** The effects of the change, and its fields. */
  readonly children: ComponentChildren;
  /** @returns a description of the change @throws ApiError */
  readonly make: (reason: string) => Promise<string>;
  /** Called with a description of the change; undefined: there was none. */
  readonly onClose: (done?: string) => void;
}

/** Asks for a reason before a change. */
export function ReasonDialog({ title, children, make, onClose }: ReasonDialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const done = useRef<string | undefined>(undefined); // the native dialog closes itself, so that the focus returns to the element that opened it
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
