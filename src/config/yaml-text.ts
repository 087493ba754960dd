import { stringify } from 'yaml';

/** A value as YAML on one line. */
export function inlineYaml(value: unknown): string {
  return stringify(value, {
    collectionStyle: 'flow',
    flowCollectionPadding: false,
    lineWidth: 0,
    singleQuote: true,
    blockQuote: false,
  }).trimEnd();
}
