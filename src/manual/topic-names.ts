/** The name that a topic is asked for by: its title in small letters, joined with dashes. */
export function topicName(title: string): string {
  return title
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]+/gu, '-')
    .replaceAll(/^-|-$/g, '');
}

/**
 * The titles of a text of Markdown, without having all of it understood: a list of topics is shown more often than one of them.
 * @param levels of the headings
 */
export function titlesOf(markdown: string, ...levels: readonly number[]): string[] {
  const withoutCode = markdown.replaceAll(/^ *(`{3,})[^]*?^ *\1`*$/gm, '');
  return [...withoutCode.matchAll(/^(#+) +(.*?) *$/gm)].flatMap(([, signs = '', title = '']) =>
    levels.includes(signs.length) ? [title] : [],
  );
}
