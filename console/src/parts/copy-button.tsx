import { useState } from 'preact/hooks';

/** Copies a text, and confirms this briefly. */
export function CopyButton({
  text,
  label = 'Copy',
  of,
}: {
  readonly text: string;
  readonly label?: string;
  readonly of: string;
}) {
  const [state, setState] = useState<'idle' | 'copied' | 'failed'>('idle');
  const copy = async (): Promise<void> => {
    const isCopied = await navigator.clipboard?.writeText(text).then(
      () => true,
      () => false,
    );
    setState(isCopied === true ? 'copied' : 'failed');
    setTimeout(() => setState('idle'), 2_000);
  };
  const shown = { idle: label, copied: 'Copied', failed: 'Select and copy it by hand' }[state];
  return (
    <button
      type="button"
      class="quiet"
      aria-label={state === 'idle' ? `${label}: ${of}` : shown}
      onClick={() => void copy()}
    >
      {shown}
    </button>
  );
}
