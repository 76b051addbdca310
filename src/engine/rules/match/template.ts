/** What the body of a rule's response may contain. */
export const placeholders = ['retry_after', 'limit', 'rule'] as const;

/** The text for each placeholder. */
export type TemplateValues = Readonly<Record<(typeof placeholders)[number], string>>;

/** The names in braces of a body. */
export const listPlaceholders = (body: string): readonly string[] =>
  Array.from(body.matchAll(/\{(\w+)\}/g), ([, name = '']) => name);

/** @param isJson  texts are written as in strings of JSON */
export const fillTemplate = (body: string, values: TemplateValues, isJson: boolean): string =>
  body.replace(/\{(retry_after|limit|rule)\}/g, (_, name: keyof TemplateValues) =>
    isJson ? JSON.stringify(values[name]).slice(1, -1) : values[name],
  );

/** Whether a media type is that of JSON: `application/json`, `application/problem+json`. */
export const isJsonType = (mediaType: string): boolean => /^[^;]*[/+]json(;|$)/i.test(mediaType);
