/** The anchor of a heading, as on GitHub, so that one link works in both places. */
export const githubSlug = (heading: string): string =>
  heading
    .trim()
    .toLowerCase()
    .replace(/[^\p{Letter}\p{Mark}\p{Number}\p{Connector_Punctuation} -]/gu, '')
    .replaceAll(' ', '-');
