import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError } from '../api.ts';
import { checkText, type TextCheck } from '../candidate.ts';

/** After the last change of a text, ms. */
const PAUSE_MS = 300;
/** After an answer that others are checked first, ms. */
const RETRY_MS = 1_000;

/** What the service says of a text. */
export interface CheckState {
  /** Of the last text that was checked; undefined: none was, or it could not be. */
  readonly check: TextCheck | undefined;
  /** Why it could not be checked. */
  readonly failure: string | undefined;
  /** It is of the present text. */
  readonly isCurrent: boolean;
}

/** Checks a text whenever it has changed: one request at a time, and of the newest text. */
export function useCheck(text: string): CheckState {
  const [found, setFound] = useState<{ readonly of: string; readonly check?: TextCheck; readonly failure?: string }>();
  const newest = useRef<string | undefined>(text);
  const isBusy = useRef(false);
  newest.current = text;
  useEffect(() => {
    if (text === '') return;
    const timer = setTimeout(() => void run(), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  useEffect(
    () => () => {
      newest.current = undefined;
    },
    [],
  );
  const run = async (): Promise<void> => {
    if (isBusy.current) return;
    isBusy.current = true;
    let checked: string | undefined;
    while (newest.current && newest.current !== checked) {
      const of = newest.current;
      const answer = await checkText(of).catch((error: unknown) => {
        if (error instanceof ApiError) return error;
        throw error;
      });
      if (answer instanceof ApiError && answer.status === 503) {
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
        continue;
      }
      checked = of;
      if (newest.current !== undefined)
        setFound(answer instanceof ApiError ? { of, failure: answer.message } : { of, check: answer });
    }
    isBusy.current = false;
  };
  return { check: found?.check, failure: found?.failure, isCurrent: found?.of === text };
}
