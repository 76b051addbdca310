import { useEffect, useRef, useState } from 'preact/hooks';
import type { Answers } from '../../../src/operate/answers/all.ts';
import { ApiError, call } from '../api.ts';

/** Delay of a check after the last change of a text, ms. */
const PAUSE_MS = 300;
/** Delay of a retry if the service checks other texts first, ms. */
const RETRY_MS = 1_000;

/** The service's check of a text. */
export interface CheckState {
  /** The result for the last checked text; undefined: none yet, or the check failed. */
  readonly check: Answers['POST /api/v1/rules/check'] | undefined;
  /** Why the check failed. */
  readonly failure: string | undefined;
  /** Whether the result is for the current text. */
  readonly isCurrent: boolean;
}

/** Checks a text after each change, with one request at a time, for the newest text. */
export function useCheck(text: string): CheckState {
  const [found, setFound] = useState<{
    readonly of: string;
    readonly check?: Answers['POST /api/v1/rules/check'];
    readonly failure?: string;
  }>();
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
      const answer = await call('POST /api/v1/rules/check', { body: of }).catch((error: unknown) => {
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
