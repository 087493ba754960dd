import { z } from 'zod';

import { storableTimeMs } from '../../lib/time/file-time.ts';
import type { ManifestFile, ManifestWorkbook } from './manifest.ts';

/** One file of a manifest as text and back: of these there are very many, so that no schema goes over them. */

const SHA256 = /^[0-9a-f]{64}$/;
/** Of `PERMISSION_BITS` only. */
const MODE = /^0[0-7]{3}$/;
const INSTANT = z.regexes.datetime({ offset: true });
const CRC32 = /^[0-9a-f]{8}$/;

/**
 * Writes a moment, in milliseconds since the epoch, as `toISOString` does.
 * @throws RangeError for what is no moment
 */
export type FormatInstant = (timeMs: number) => string;

const DAY_MS = 86_400_000;

const PAIRS = Array.from({ length: 60 }, (_, number) => String(number).padStart(2, '0'));

/** Makes a writer of times, several times faster than `toISOString`: the files of one tree have few different days. */
export function instantFormatter(): FormatInstant {
  let lastDay = Number.NaN;
  let lastText = '';
  return (timeMs) => {
    if (!Number.isSafeInteger(timeMs)) return new Date(timeMs).toISOString();
    const day = Math.floor(timeMs / DAY_MS);
    if (lastDay !== day) {
      [lastText = ''] = new Date(timeMs).toISOString().split('T');
      lastDay = day;
    }
    const ms = timeMs - day * DAY_MS;
    const seconds = Math.floor(ms / 1000);
    const minutes = Math.floor(seconds / 60);
    const time = `${PAIRS[Math.floor(minutes / 60)]}:${PAIRS[minutes % 60]}:${PAIRS[seconds % 60]}`;
    return `${lastText}T${time}.${String(ms % 1000).padStart(3, '0')}Z`;
  };
}

/** A file as it stands in the text of a manifest: an object of the array `files`, with sorted keys, without a line break. */
export function fileToText(file: ManifestFile, formatInstant: FormatInstant): string {
  const { crc32, workbook } = file;
  const mode = file.mode.toString(8).padStart(4, '0');
  return (
    '  {\n' +
    (crc32 === undefined ? '' : `   "crc32": "${crc32.toString(16).padStart(8, '0')}",\n`) +
    `   "mode": "${mode}",\n` +
    `   "mtime": "${formatInstant(file.mtimeMs)}",\n` +
    `   "path": ${JSON.stringify(file.path)},\n` +
    `   "sha256": ${JSON.stringify(file.sha256)},\n` +
    `   "size": ${JSON.stringify(file.sizeBytes)}` +
    (workbook === undefined ? '' : `,\n   "workbook": ${workbookToText(workbook)}`) +
    '\n  }'
  );
}

function workbookToText({
  id,
  versionId,
  author,
  message,
  createdAt,
  action,
  parentId,
}: ManifestWorkbook): string {
  return (
    '{\n' +
    (action === undefined ? '' : `    "action": ${JSON.stringify(action)},\n`) +
    `    "author": ${JSON.stringify(author)},\n` +
    `    "created_at": ${JSON.stringify(createdAt)},\n` +
    `    "id": ${JSON.stringify(id)},\n` +
    `    "message": ${JSON.stringify(message)},\n` +
    (parentId === undefined ? '' : `    "parent": ${JSON.stringify(parentId)},\n`) +
    `    "version": ${JSON.stringify(versionId)}\n` +
    '   }'
  );
}

/**
 * Reads an element of the array `files`; null where it is none that {@link fileToText} writes, further keys left aside. Whether
 * its path fits into a tree with the others is not looked at.
 */
export function fileFromDisk(value: unknown): ManifestFile | null {
  if (!isObject(value)) return null;
  const { path, size, sha256, mode, mtime, crc32 } = value;
  if (typeof path !== 'string' || path === '' || !isSize(size)) return null;
  if (!isText(sha256, SHA256) || !isText(mode, MODE) || !isText(mtime, INSTANT)) return null;
  const file: { -readonly [Key in keyof ManifestFile]: ManifestFile[Key] } = {
    path,
    sizeBytes: size,
    sha256,
    mode: Number.parseInt(mode, 8),
    // An earlier version of this program wrote times that no file system can keep: repair puts them right.
    mtimeMs: storableTimeMs(Date.parse(mtime)),
  };
  if (crc32 !== undefined) {
    if (!isText(crc32, CRC32)) return null;
    file.crc32 = Number.parseInt(crc32, 16);
  }
  if (value['workbook'] === undefined) return file;
  const workbook = workbookFromDisk(value['workbook']);
  if (workbook === null) return null;
  file.workbook = workbook;
  return file;
}

function workbookFromDisk(value: unknown): ManifestWorkbook | null {
  if (!isObject(value)) return null;
  const { id, version, author, message, created_at: createdAt, action, parent } = value;
  if (typeof id !== 'string' || typeof version !== 'string') return null;
  if (!isTextOrNull(author) || !isTextOrNull(message) || !isTextOrNull(createdAt)) return null;
  const workbook: { -readonly [Key in keyof ManifestWorkbook]: ManifestWorkbook[Key] } = {
    id,
    versionId: version,
    author,
    message,
    createdAt,
  };
  if (action !== undefined) {
    if (!isTextOrNull(action)) return null;
    workbook.action = action;
  }
  if (parent !== undefined) {
    if (!isTextOrNull(parent)) return null;
    workbook.parentId = parent;
  }
  return workbook;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Whether a value is a count of bytes that a number holds exactly. */
function isSize(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}

function isText(value: unknown, form: RegExp): value is string {
  return typeof value === 'string' && form.test(value);
}

function isTextOrNull(value: unknown): value is string | null {
  return typeof value === 'string' || value === null;
}
