import { RequestError } from '../../lib/http/request-error.ts';
import { byCodeUnits } from '../../mirror/store/manifest.ts';
import type { Library, Repository, WorkbookRow } from '../http/library.ts';
import type { ReplicaLibrary } from './library.ts';
import { busy, withheld } from './scans.ts';

/** One of the mirrors that a replica answers for together. */
export interface MirrorPart {
  readonly directory: string;
  readonly library: ReplicaLibrary;
}

/** A repository, and the directory of its mirror. */
interface Place {
  readonly directory: string;
  readonly repository: Repository;
}

/** Repositories of two mirrors that a client cannot tell apart: an id or full name of the one is one of the other. */
export interface Meeting {
  readonly one: Place;
  readonly other: Place;
}

/** The repositories of a mirror. */
interface MirrorList {
  readonly directory: string;
  readonly repositories: readonly Repository[];
}

/** Finds the repositories that meet, each with the one in the first mirror that has its id or full name. */
export function findMeetings(lists: readonly MirrorList[]): Meeting[] {
  const known = new Map<string, Place>();
  const meetings: Meeting[] = [];
  for (const { directory, repositories } of lists) {
    const places = repositories.map((repository) => ({ directory, repository }));
    for (const other of places) {
      const { id, full_name } = other.repository;
      for (const one of new Set([known.get(id), known.get(full_name)]))
        if (one !== undefined) meetings.push({ one, other });
    }
    for (const place of places)
      for (const reference of [place.repository.id, place.repository.full_name])
        if (!known.has(reference)) known.set(reference, place);
  }
  return meetings;
}

/** Says which repositories meet, and where; without a full stop. */
export function describeMeeting({ one, other }: Meeting): string {
  const name = one.repository.full_name;
  if (name === other.repository.full_name) return `${name} is in ${one.directory} and in ${other.directory}`;
  const told = ({ directory, repository: { id, full_name } }: Place): string =>
    `${full_name} (id ${id}) in ${directory}`;
  return `${told(one)} and ${told(other)} cannot be told apart`;
}

/**
 * Makes one library of several mirrors. Where repositories come to meet both lists are refused, as one that lacks a repository would
 * have whoever mirrors this replica delete it; so are the contents of those that meet, and all others are given.
 * @param onMeetings receives what meets, each time this is something else, and none when that is over
 */
export function joinLibraries(
  parts: readonly MirrorPart[],
  onMeetings: (meetings: readonly Meeting[]) => void,
): Library {
  const owners = new WeakMap<Repository, MirrorPart>();
  const join = rememberLast((lists: ReadonlyArray<readonly Repository[]>) => {
    for (const [index, part] of parts.entries())
      for (const repository of lists[index] ?? []) owners.set(repository, part);
    return joinLists(parts, lists);
  });
  let told = '';
  const joined = (lists: ReadonlyArray<readonly Repository[]>): Joined => {
    const all = join(lists);
    const found = all.meetings.map(describeMeeting).join('\n');
    if (found !== told) onMeetings(all.meetings);
    told = found;
    return all;
  };
  const readers = parts.map(({ library }) => patient(library.knownRepositories));
  const known = async (): Promise<Joined> => joined(await Promise.all(readers.map((read) => read())));
  const joinWorkbooks = rememberLast(joinRows);
  return {
    repositories: async () =>
      whole(joined(await Promise.all(parts.map(({ library }) => library.repositories())))).repositories,
    knownRepositories: async () => (await known()).repositories,
    workbooks: async () => {
      const all = await Promise.all(parts.map(({ library }) => library.workbooks()));
      whole(await known());
      const { rows, ownerOf } = joinWorkbooks(all.map(({ rows }) => rows));
      return {
        rows,
        standingOf: (row) => {
          const owner = all[ownerOf.get(row.integration) ?? -1];
          if (owner === undefined) throw new TypeError('a row of no mirror');
          return owner.standingOf(row);
        },
      };
    },
    content: async (repository, branch, path, signal) => {
      const owner = owners.get(repository);
      if (owner === undefined) throw new TypeError('a repository of no mirror');
      const meeting = (await known()).meetings.find(({ one, other }) =>
        [one.repository, other.repository].some(({ id }) => id === repository.id),
      );
      if (meeting !== undefined) throw withheld(describeMeeting(meeting));
      return owner.library.content(repository, branch, path, signal);
    },
    verifiedAtMs: async () => {
      const times = await Promise.all(parts.map(({ library }) => library.verifiedAtMs()));
      const known = times.filter((time) => time !== null);
      return known.length === 0 ? null : Math.min(...known);
    },
  };
}

interface Joined {
  /** Sorted by full name, then by id. */
  readonly repositories: readonly Repository[];
  readonly meetings: readonly Meeting[];
}

function joinLists(parts: readonly MirrorPart[], lists: ReadonlyArray<readonly Repository[]>): Joined {
  const repositories = lists
    .flat()
    .sort((a, b) => byCodeUnits(a.full_name, b.full_name) || byCodeUnits(a.id, b.id));
  const meetings = findMeetings(
    parts.map(({ directory }, index) => ({ directory, repositories: lists[index] ?? [] })),
  );
  return { repositories, meetings };
}

/** @throws RequestError 503 where repositories meet */
function whole(joined: Joined): Joined {
  const [first] = joined.meetings;
  if (first === undefined) return joined;
  throw busy(`the list would not be right, as ${describeMeeting(first)}`);
}

/** @throws RequestError 503 where two mirrors have workbooks of one repository */
function joinRows(lists: ReadonlyArray<readonly WorkbookRow[]>): {
  readonly rows: readonly WorkbookRow[];
  /** The place of a repository's mirror among the lists, by full name. */
  readonly ownerOf: ReadonlyMap<string, number>;
} {
  const ownerOf = new Map<string, number>();
  for (const [index, rows] of lists.entries()) {
    for (const { integration } of rows) {
      if ((ownerOf.get(integration) ?? index) !== index)
        throw busy(`the list would not be right, as ${integration} is in two mirrors`);
      ownerOf.set(integration, index);
    }
  }
  const rows = lists.flat().sort((a, b) => byCodeUnits(a.id, b.id) || byCodeUnits(a.branch, b.branch));
  return { rows, ownerOf };
}

/** Remembers what was made of the last inputs, which are compared by identity. */
function rememberLast<Input, Made>(
  make: (inputs: readonly Input[]) => Made,
): (inputs: readonly Input[]) => Made {
  let last: { readonly inputs: readonly Input[]; readonly made: Made } | null = null;
  return (inputs) => {
    if (last === null || inputs.some((input, index) => input !== last?.inputs[index]))
      last = { inputs, made: make(inputs) };
    return last.made;
  };
}

/**
 * Gives what was read last where nothing can be read now: a mirror whose disk fails keeps nothing of the others back. Before a first
 * reading it fails, as it would tell of nothing where there may be something.
 */
function patient<T>(read: () => Promise<T>): () => Promise<T> {
  let last: { readonly value: T } | null = null;
  return async () => {
    try {
      last = { value: await read() };
    } catch (error) {
      if (last === null || !(error instanceof RequestError)) throw error;
    }
    return last.value;
  };
}
