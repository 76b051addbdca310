/** A result of the doctor about a live Envoy. */
export interface Finding {
  readonly isWrong: boolean;
  readonly text: string;
}

export const right = (text: string): Finding => ({ isWrong: false, text });
export const wrong = (text: string): Finding => ({ isWrong: true, text });
