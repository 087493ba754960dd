/** A JSON object, of which one array is read a slice at a time. */
export interface SlicedJson {
  /** The object, with nothing in that array. */
  readonly object: unknown;
  /** The elements of the array, each parsed as it comes; nothing where there is no such array. @throws SyntaxError */
  readonly elements: Iterable<unknown>;
}

/** Bytes of a slice, more or less. */
const SLICE_BYTES = 256 * 1024;

/**
 * Parses JSON like `JSON.parse`, but without an array of very many elements in memory as text, as what the text says, and as what is
 * made of it, all at once.
 * @param key the name of the array, which is a member of the outermost object; of several the last counts
 * @throws SyntaxError
 */
export function parseSliced(json: Buffer, key: string): SlicedJson {
  const cuts = findCuts(json, key);
  const [start] = cuts;
  const end = cuts.at(-1);
  if (start === undefined || end === undefined) return { object: parse(json.toString('utf8')), elements: [] };
  const rest = json.toString('utf8', 0, start) + json.toString('utf8', end);
  return { object: parse(rest), elements: elementsBetween(json, cuts) };
}

function parse(text: string): unknown {
  return JSON.parse(text);
}

function* elementsBetween(json: Buffer, cuts: readonly number[]): Generator {
  for (let index = 1; index < cuts.length; index += 1) {
    // At each cut but the outer ones there is a comma.
    const start = (cuts[index - 1] ?? 0) + (index === 1 ? 0 : 1);
    const elements = parse(`[${json.toString('utf8', start, cuts[index])}]`);
    if (!Array.isArray(elements)) continue;
    if (elements.length === 0 && cuts.length > 2) throw new SyntaxError('nothing beside a comma');
    yield* elements;
  }
}

const [QUOTE, BACKSLASH, COMMA, COLON] = [0x22, 0x5c, 0x2c, 0x3a];
const [OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

/**
 * Finds where to cut an array: behind its bracket, at commas between its elements, at its other bracket; nowhere where it is not found.
 * Only strings and brackets are looked at: where the text is no JSON, some slice or the rest of it is none.
 */
function findCuts(json: Buffer, key: string): readonly number[] {
  const finder = new CutFinder(json, key);
  for (let at = 0; at < json.length; at += 1) {
    const byte = json[at];
    if (byte === QUOTE) at = finder.string(at);
    else if (byte === OPEN_ARRAY || byte === OPEN_OBJECT) finder.open(at, byte === OPEN_ARRAY);
    else if (byte === CLOSE_ARRAY || byte === CLOSE_OBJECT) finder.close(at);
    else if (byte === COMMA) finder.comma(at);
    else if (byte === COLON) finder.colon();
  }
  return finder.found();
}

class CutFinder {
  private readonly json: Buffer;
  private readonly key: string;
  private cuts: number[] = [];
  private depth = 0;
  /** Whether this is within the array, at whatever depth. */
  private isInside = false;
  /** Whether what follows is the value of the key. */
  private isNamed = false;
  /** The last string of the outermost object itself: where it starts, and where it ends. */
  private name: readonly [number, number] = [0, 0];

  constructor(json: Buffer, key: string) {
    this.json = json;
    this.key = key;
  }

  /** @returns where the string ends */
  string(at: number): number {
    const end = endOfString(this.json, at);
    if (this.depth === 1) this.name = [at, end];
    return end;
  }

  open(at: number, isArray: boolean): void {
    if (isArray && this.isNamed && this.depth === 1) {
      this.cuts = [at + 1];
      this.isInside = true;
    }
    this.depth += 1;
  }

  close(at: number): void {
    this.depth -= 1;
    if (this.depth !== 1 || !this.isInside) return;
    this.cuts.push(at);
    this.isInside = false;
  }

  comma(at: number): void {
    if (this.depth === 1) this.isNamed = false;
    else if (this.isInside && this.depth === 2 && at - (this.cuts.at(-1) ?? 0) >= SLICE_BYTES)
      this.cuts.push(at);
  }

  colon(): void {
    if (this.depth !== 1) return;
    const [start, end] = this.name;
    this.isNamed = isString(this.json.toString('utf8', start, end + 1), this.key);
  }

  found(): readonly number[] {
    return this.isInside ? [] : this.cuts;
  }
}

/** The place of the quotation mark that ends a string; the end of the text where none does. */
function endOfString(json: Buffer, start: number): number {
  for (let at = start + 1; at < json.length; at += 1) {
    if (json[at] === QUOTE) return at;
    if (json[at] === BACKSLASH) at += 1;
  }
  return json.length;
}

/** Whether the text of a JSON string says something. */
function isString(text: string, value: string): boolean {
  try {
    return parse(text) === value;
  } catch {
    return false;
  }
}
