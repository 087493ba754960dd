import { readFileSync } from 'node:fs';
import { SourceMap, type SourceMapPayload } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

import { PROGRAM_FOLDER } from '../process/program-folder.ts';

/** A place in a file of a stack, such as `file:///usr/lib/program/dist/pass.js:12:34`. */
const PLACE = /(file:\S+?\.js):(\d+):(\d+)/g;

/**
 * Translates the places of a stack to files and lines of the sources, if there are maps beside the files that it names. Node does so
 * itself with `--enable-source-maps`, but reads every map at the start for that.
 * @param calls the lines of a stack below its message
 */
export function sourceLines(calls: string): string {
  const maps = new Map<string, SourceMap | null>();
  return calls.replaceAll(PLACE, (place, url: string, line: string, column: string) => {
    const map = maps.get(url) ?? mapOf(url);
    maps.set(url, map);
    const origin = map?.findOrigin(Number(line), Number(column));
    if (origin === undefined || !('fileName' in origin)) return place;
    const root = fileURLToPath(new URL('../', PROGRAM_FOLDER));
    const source = relative(root, join(dirname(fileURLToPath(url)), origin.fileName));
    return `${source}:${origin.lineNumber}:${origin.columnNumber}`;
  });
}

/** Null if there is no map, or only a malformed one: then the stack stays as it is. */
function mapOf(url: string): SourceMap | null {
  try {
    const content: unknown = JSON.parse(readFileSync(new URL(`${url}.map`), 'utf8'));
    return isSourceMap(content) ? new SourceMap(content) : null;
  } catch {
    return null;
  }
}

function isSourceMap(content: unknown): content is SourceMapPayload {
  if (typeof content !== 'object' || content === null) return false;
  if (!('sources' in content) || !('mappings' in content)) return false;
  return Array.isArray(content.sources) && typeof content.mappings === 'string';
}
