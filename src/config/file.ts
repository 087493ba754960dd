import { isUtf8 } from 'node:buffer';
import { dirname } from 'node:path';

import {
  type Document,
  type ErrorCode,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Pair,
  parseDocument,
} from 'yaml';

import { nearest } from '../lib/text/nearest.ts';
import { settingsByName } from './descriptors.ts';
import { Layer } from './layers.ts';
import type { SettingSource } from './problems.ts';
import { removalMessage } from './removed-settings.ts';
import { sections } from './schema.ts';

/**
 * The settings in a file's content. Numbers and words are kept as written: the setting interprets them, not YAML.
 *
 * @param path absolute; its folder is where relative paths in the file start
 */
export function fileLayer(content: Uint8Array, path: string): Layer {
  if (!isUtf8(content)) return failed({ kind: 'file', detail: path }, 'expected a YAML file in UTF-8');
  const layer = new Layer();
  layer.isComplete = new FileReader(new TextDecoder().decode(content), path, layer).read();
  return layer;
}

/** The layer of a file that cannot be used at all. */
export function failed(source: SettingSource | undefined, message: string): Layer {
  const layer = new Layer();
  layer.refuse(undefined, source, message);
  layer.isComplete = false;
  return layer;
}

class FileReader {
  readonly #layer: Layer;
  readonly #path: string;
  readonly #lines = new LineCounter();
  readonly #document: Document.Parsed;

  constructor(text: string, path: string, layer: Layer) {
    this.#layer = layer;
    this.#path = path;
    this.#document = parseDocument(text, { lineCounter: this.#lines, prettyErrors: false });
  }

  /** @returns whether everything could be read */
  read(): boolean {
    const errors = [...this.#document.errors, ...this.#document.warnings];
    for (const error of errors) this.#note(undefined, error.pos[0], yamlMessage(error.code));
    // After any problem but a repeated name or a strange tag, the parser's result for the rest is unreliable.
    if (errors.some(({ code }) => code !== 'DUPLICATE_KEY' && code !== 'TAG_RESOLVE_FAILED')) return false;
    const top = this.#resolve(this.#document.contents);
    if (isMap(top)) for (const pair of top.items) this.#readPair(pair, '');
    else if (!isNothing(top))
      this.#note(undefined, offsetOf(top), 'expected lines of the form "name: value" at the top');
    return true;
  }

  #note(setting: string | undefined, offset: number | undefined, message: string): void {
    this.#layer.refuse(setting, this.#source(offset), message);
  }

  #readPair(pair: Pair, prefix: string): void {
    const offset = offsetOf(pair.key);
    const key = scalarText(pair.key);
    if (key === undefined) {
      this.#note(undefined, offset, 'expected a name that is a plain word');
      return;
    }
    const name = prefix + key;
    const value = this.#resolve(pair.value);
    if (key.includes('.') || !(Object.hasOwn(sections, name) || settingsByName.has(name)))
      this.#note(shownName(name), offset, unknownName(name, key));
    // If nothing is given, for example in a section whose lines are all commented out, the defaults apply.
    else if (isNothing(value)) return;
    else if (settingsByName.has(name)) this.#readValue(name, value, offset);
    else if (isMap(value)) for (const inner of value.items) this.#readPair(inner, `${name}.`);
    else this.#note(name, offset, 'expected a section: lines of the form "name: value", indented');
  }

  #readValue(name: string, value: unknown, offset: number | undefined): void {
    const kind = settingsByName.get(name)?.kind;
    const isList = kind === 'list' || kind === 'command';
    const parts = isSeq(value) ? value.items.map((item) => this.#resolve(item)) : [value];
    const texts = parts.map(scalarText).filter((text) => text !== undefined);
    if (isSeq(value) !== isList || texts.length < parts.length)
      this.#note(name, offset, wrongShape(isList, parts.some(isAlias)));
    else if (parts.some((part) => this.#isFolded(part))) {
      // "apiKey:SECRET" without a space continues the value of the line above, and would be shown with it.
      this.#note(name, offset, 'expected a value on one line (is the space after the next colon missing?)');
    } else
      this.#layer.values.set(name, {
        value: kind === 'list' ? texts : kind === 'command' ? JSON.stringify(texts) : texts.join(''),
        source: this.#source(offset),
        base: dirname(this.#path),
      });
  }

  #isFolded(node: unknown): boolean {
    if (!isScalar(node) || node.type !== 'PLAIN' || !node.range) return false;
    const [start, end] = node.range;
    return this.#lines.linePos(start).line !== this.#lines.linePos(end).line;
  }

  /** Follows an alias; one that leads nowhere stays, because it is a pattern without its quotes. */
  #resolve(node: unknown): unknown {
    return isAlias(node) ? (node.resolve(this.#document) ?? node) : node;
  }

  #source(offset: number | undefined): SettingSource {
    const line = offset === undefined ? '' : `:${this.#lines.linePos(offset).line}`;
    return { kind: 'file', detail: `${this.#path}${line}` };
  }
}

function wrongShape(isList: boolean, hasAlias: boolean): string {
  if (hasAlias) return 'expected quotes around a value that starts with *';
  return isList
    ? 'expected a list of texts, such as [one, two]'
    : 'expected one value, not a list or a section';
}

/** An unknown name up to where it stops looking like one: the rest may be a value whose space is missing. */
function shownName(name: string): string {
  const [plain = ''] = /^[\w.<$-]*/.exec(name) ?? [];
  return plain === name ? name : `${plain}…`;
}

function unknownName(name: string, key: string): string {
  const removed = removalMessage(name);
  if (removed !== undefined) return removed;
  if (settingsByName.has(key) && key.includes('.')) {
    const dot = key.lastIndexOf('.');
    return `expected "${key.slice(dot + 1)}" on a line of its own, indented below "${key.slice(0, dot)}:"`;
  }
  const near = nearest(name, [...settingsByName.keys(), ...Object.keys(sections)]) ?? '';
  return `unknown setting; the nearest known one is ${near}`;
}

function isNothing(node: unknown): boolean {
  return node === null || node === undefined || (isScalar(node) && node.value === null);
}

/** A word, number or the like as it is written; undefined for anything else, and for null. */
function scalarText(node: unknown): string | undefined {
  if (!isScalar(node) || node.value === null) return undefined;
  return typeof node.value === 'string' ? node.value : node.source;
}

function offsetOf(node: unknown): number | undefined {
  return isScalar(node) || isMap(node) || isSeq(node) || isAlias(node) ? node.range?.[0] : undefined;
}

/** Mistakes that people make in YAML. The parser's own messages are not used: some repeat a part of the text, which may be a secret. */
const MESSAGES: Partial<Record<ErrorCode, string>> = {
  BAD_ALIAS: 'a value that starts with * or & must be in quotes',
  BAD_DQ_ESCAPE: 'a backslash within double quotes starts an escape; use single quotes',
  BAD_INDENT: 'the indentation does not fit, or a closing bracket is missing',
  BAD_SCALAR_START: 'a value that starts with @, ` or % must be in quotes',
  BLOCK_AS_IMPLICIT_KEY: 'the indentation does not fit, or a value that has ": " in it is not in quotes',
  DUPLICATE_KEY: 'this name was given before at the same place',
  MISSING_CHAR: 'a quote, comma or space is missing',
  MULTILINE_IMPLICIT_KEY: 'the indentation does not fit, or a colon is missing',
  TAB_AS_INDENT: 'expected spaces for indentation, not tabs',
  TAG_RESOLVE_FAILED: 'a value that starts with ! must be in quotes',
  UNEXPECTED_TOKEN:
    'something here does not belong; a value that starts with * or & (such as a schedule or a pattern) must be in quotes',
};

/** One line for a person, without any of the text that was parsed. */
function yamlMessage(code: ErrorCode): string {
  return `not valid YAML: ${MESSAGES[code] ?? code.toLowerCase().replaceAll('_', ' ')}`;
}
