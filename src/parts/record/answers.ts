import { fields, flag, orNull, text, time } from '../../base/shape.ts';

const recording = fields(
  {
    recording: flag,
    /** Null: the recording has no end. */
    until: orNull(time),
  },
  /** Since when and why requests are missing. */
  { failing: text },
);

export const recordAnswers = { 'GET /api/v1/recording': recording, 'PUT /api/v1/recording': recording };
