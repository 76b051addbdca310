/** @see https://www.rfc-editor.org/rfc/rfc9113#section-7 */
export const ErrorCode = {
  NO_ERROR: 0,
  PROTOCOL_ERROR: 1,
  INTERNAL_ERROR: 2,
  FLOW_CONTROL_ERROR: 3,
  SETTINGS_TIMEOUT: 4,
  STREAM_CLOSED: 5,
  FRAME_SIZE_ERROR: 6,
  REFUSED_STREAM: 7,
  CANCEL: 8,
  COMPRESSION_ERROR: 9,
  CONNECT_ERROR: 10,
  ENHANCE_YOUR_CALM: 11,
  INADEQUATE_SECURITY: 12,
  HTTP_1_1_REQUIRED: 13,
} as const;

type ErrorName = keyof typeof ErrorCode;
export type ErrorNumber = (typeof ErrorCode)[ErrorName];

/** A code's name, for statistics. */
export const errorNames = Object.fromEntries(Object.entries(ErrorCode).map(([name, code]) => [code, name])) as Readonly<
  Record<ErrorNumber, ErrorName>
>; // the same table, inverted

/** A violation of the protocol or of a limit, which ends the connection with this code. */
export class Http2Error extends Error {
  override readonly name = 'Http2Error';
  readonly code: ErrorNumber;

  /** @param message  the reason, sent to the peer as GOAWAY's debug data */
  constructor(code: ErrorNumber, message: string) {
    super(message);
    this.code = code;
  }
}
