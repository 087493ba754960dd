import type { Packing } from './archive-file.ts';
import { compressibleBytesOf, numbersOf, randomBytesOf } from './random.ts';

/** The name of a data set, and what stands in a table for it. */
export interface DataSetSpec {
  readonly name: string;
  readonly repositories: number;
  readonly filesEach: number;
  /** Range of the size of a file, in bytes: small ones are more frequent. */
  readonly leastBytes: number;
  readonly mostBytes: number;
  /** So many files, spread evenly, are of `largeBytes`. */
  readonly largeFiles: number;
  readonly largeBytes: number;
  /** How the files are packed, in turn. */
  readonly packings: readonly Packing[];
  readonly kind: 'drag-and-drop' | 'git';
}

/** A file of a data set; its first version is 1. */
export interface BenchFile {
  readonly path: string;
  readonly sizeBytes: number;
  readonly packing: Packing;
  /** What its bytes follow from, together with its version. */
  readonly seed: string;
  version: number;
}

/** A repository of a data set. */
export interface BenchRepository {
  readonly id: string;
  readonly name: string;
  readonly fullName: string;
  readonly url: string | null;
  readonly branch: string;
  readonly files: BenchFile[];
}

const SMALL: Omit<DataSetSpec, 'name'> = {
  repositories: 1,
  filesEach: 1,
  leastBytes: 1024,
  mostBytes: 40 * 1024,
  largeFiles: 0,
  largeBytes: 0,
  packings: ['deflated'],
  kind: 'drag-and-drop',
};

/** A data set: files of 1 to 40 KiB in one drag-and-drop repository, unless it is said otherwise. */
export function dataSet(name: string, fields: Partial<Omit<DataSetSpec, 'name'>>): DataSetSpec {
  return { name, ...SMALL, ...fields };
}

const FIRST_VERSION_MS = Date.UTC(2026, 0, 2, 3, 4, 6);
const MINUTE_MS = 60_000;

/** When a version was made, in milliseconds since the epoch. */
export function versionTimeMs(version: number): number {
  return FIRST_VERSION_MS + version * MINUTE_MS;
}

/** The repositories of a data set, each with its files in their first version, on one branch. */
export function repositoriesOf(spec: DataSetSpec): BenchRepository[] {
  return Array.from({ length: spec.repositories }, (_, index) => {
    const name = spec.kind === 'git' ? `books-${index + 1}` : `Books ${index + 1}`;
    const fullName = spec.kind === 'git' ? `git.example.com/bench/${name}.git` : name;
    return {
      id: `00000000-0000-4000-8000-${index.toString(16).padStart(12, '0')}`,
      name,
      fullName,
      url: spec.kind === 'git' ? `https://${fullName}` : null,
      branch: 'main',
      files: filesOf(spec, String(index)),
    };
  });
}

/** The bytes of a file's present version. */
export function contentOf(file: BenchFile): Buffer {
  const make = file.packing === 'deflated' ? compressibleBytesOf : randomBytesOf;
  const content = make(`${file.seed} ${file.version}`, file.sizeBytes);
  PACKAGE_START.copy(content);
  return content;
}

const FIRST_PART = '[Content_Types].xml';

/** What every workbook begins with: the local header of the first part of its package (ECMA-376 part 2; APPNOTE, section 4.3.7). */
const PACKAGE_START = Buffer.concat([
  Buffer.from([0x50, 0x4b, 3, 4, 20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0x5a]),
  Buffer.alloc(12),
  Buffer.from([FIRST_PART.length, 0, 0, 0]),
  Buffer.from(FIRST_PART),
]);

const FILES_IN_A_FOLDER = 25;

function filesOf(spec: DataSetSpec, part: string): BenchFile[] {
  const seed = `${spec.packings.join()} ${spec.filesEach} ${part}`;
  const next = numbersOf(seed);
  const largeEvery = spec.largeFiles === 0 ? Infinity : Math.floor(spec.filesEach / spec.largeFiles);
  return Array.from({ length: spec.filesEach }, (_, index) => {
    const folder = Math.floor(index / FILES_IN_A_FOLDER);
    const isLarge = index % largeEvery === largeEvery - 1;
    const spread = (spec.mostBytes / spec.leastBytes) ** (next() ** 2);
    return {
      path: `Department ${folder % 10}/Team ${folder}/Plan ${index}.xlsx`,
      sizeBytes: isLarge ? spec.largeBytes : Math.round(spec.leastBytes * spread),
      packing: spec.packings[index % spec.packings.length] ?? 'stored',
      seed: `${seed} ${index}`,
      version: 1,
    };
  });
}
