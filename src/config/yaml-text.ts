import { stringify } from 'yaml';

import { printable } from '../lib/text/humanize.ts';
import { escapedJson } from '../lib/text/terminal-text.ts';

/** A value as YAML on one line, in which every character shows as itself: what does not is named by its number. */
export function inlineYaml(value: unknown): string {
  const text = stringify(value, {
    collectionStyle: 'flow',
    flowCollectionPadding: false,
    lineWidth: 0,
    singleQuote: true,
    blockQuote: false,
  }).replace(/\n$/, '');
  // JSON is YAML, too (YAML 1.2.2, section 1.3).
  return printable(text) === text ? text : String(escapedJson(JSON.stringify(value)));
}
