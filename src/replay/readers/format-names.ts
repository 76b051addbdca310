/** The kinds of access logs that can be read; `json` is Envoy's and any other with an object on each line. */
export const logFormats = ['json', 'envoy-text', 'nginx', 'csv', 'k6', 'vegeta'] as const;
export type LogFormatName = (typeof logFormats)[number];
