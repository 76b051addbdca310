/** The supported formats of access logs; `json` is Envoy's JSON format, and any other log with an object per line. */
export const logFormats = ['json', 'envoy-text', 'nginx', 'csv', 'k6', 'vegeta'] as const;
export type LogFormatName = (typeof logFormats)[number];
