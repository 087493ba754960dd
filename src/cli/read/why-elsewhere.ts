import { publishedManifest } from '../../mirror/store/inventory.ts';
import { counted, utcTime } from '../../lib/text/humanize.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { joinLines, type TerminalText } from '../../lib/text/terminal-text.ts';
import type { Published } from '../../mirror/plan/record.ts';
import { readHistory } from '../../mirror/store/history/history.ts';
import type { DirectoryLayout } from '../../mirror/store/layout.ts';
import type { MirrorReader } from '../../app/open-reader.ts';

/** The places of a file that was asked for by the end of its path alone. */
export interface FilePlaces {
  /** As it was asked for. */
  readonly file: string;
  /** Sorted as the targets are. */
  readonly places: readonly FilePlace[];
}

/** A file in a published tree. */
export interface FilePlace {
  readonly target: string;
  /** Within the tree. */
  readonly path: string;
}

/** A target that was asked for and that is mirrored no longer. */
export interface Retired {
  readonly retired: {
    readonly target: string;
    /** When it left the mirror last. Milliseconds since the epoch. */
    readonly leftAtMs: number;
  };
}

/** The most places that are shown to a person; `--json` shows all. */
const TOLD_PLACES = 20;

/** Finds the published files whose path is a name, or ends with it after a slash. Reads every manifest. */
export async function placesOf(
  store: Pick<MirrorReader['store'], 'layout'>,
  published: readonly Published[],
  name: string,
): Promise<FilePlace[]> {
  const places: FilePlace[] = [];
  if (name === '') return places;
  // One after the other: a manifest may be great.
  for (const { path: target } of published) {
    const manifest = await publishedManifest(store.layout, target);
    for (const { path } of manifest?.files ?? [])
      if (path === name || path.endsWith(`/${name}`)) places.push({ target, path });
  }
  return places;
}

/** The last retirement of a target that has a path, or that held it; null where the history keeps none. */
export async function retirementOf(
  layout: DirectoryLayout,
  path: string,
): Promise<Retired['retired'] | null> {
  const entry = (await readHistory(layout))
    .filter((each) => each.kind === 'retired' && (path === each.path || path.startsWith(`${each.path}/`)))
    .sort((a, b) => b.atMs - a.atMs)[0];
  return entry === undefined ? null : { target: entry.path, leftAtMs: entry.atMs };
}

/** The places for a person. */
export function describePlaces({ file, places }: FilePlaces): TerminalText {
  const more = places.length - TOLD_PLACES;
  return joinLines([
    `${file} is in ${counted(places.length, 'place')}; name one of them to have it explained:`,
    ...places.slice(0, TOLD_PLACES).map(({ target, path }) => `  ${target}/${path}`),
    ...(more > 0 ? [`  and ${more} more`] : []),
  ]);
}

/** A retired target, for a person. */
export function describeRetired({ retired: { target, leftAtMs } }: Retired): TerminalText {
  return joinLines([
    `${target} is mirrored no longer: it left the mirror at ${utcTime(leftAtMs)}.`,
    `  what is kept of it: ${ownCommand('history list', target)}`,
    `  to bring it back:   ${ownCommand('history restore', target)}`,
  ]);
}
