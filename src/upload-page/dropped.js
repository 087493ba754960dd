/** Files that are dropped or chosen. */

/**
 * A file with where it lies in what was dropped.
 * @typedef {{ path: string, file: File }} Dropped
 */

/**
 * The files of a drop, with those in dropped folders.
 * @param {DataTransfer} transfer
 * @returns {Promise<Dropped[]>}
 */
export async function droppedFiles(transfer) {
  // All of them are taken at once: after the first wait the browser gives none any more.
  const taken = [...transfer.items]
    .filter(({ kind }) => kind === 'file')
    .map((item) => ({ entry: item.webkitGetAsEntry(), file: item.getAsFile() }));
  const found = await Promise.all(
    taken.map(({ entry, file }) => {
      if (entry !== null) return filesOf(entry);
      return Promise.resolve(file === null ? [] : [{ path: file.name, file }]);
    }),
  );
  return found.flat();
}

/**
 * @param {FileList} files that were chosen
 * @returns {Dropped[]}
 */
export function chosenFiles(files) {
  return [...files].map((file) => ({ path: file.name, file }));
}

/** @param {FileSystemEntry} entry @returns {Promise<Dropped[]>} */
async function filesOf(entry) {
  if (entry instanceof FileSystemFileEntry) {
    /** @type {File} */
    const file = await new Promise((resolve, reject) => {
      entry.file(resolve, reject);
    });
    return [{ path: entry.fullPath.replace(/^\//, ''), file }];
  }
  if (!(entry instanceof FileSystemDirectoryEntry)) return [];
  const entries = await childrenOf(entry);
  return (await Promise.all(entries.map(filesOf))).flat();
}

/** @param {FileSystemDirectoryEntry} folder @returns {Promise<FileSystemEntry[]>} */
async function childrenOf(folder) {
  const reader = folder.createReader();
  /** @type {FileSystemEntry[]} */
  const all = [];
  // It gives some at a time, and none at the end.
  for (;;) {
    /** @type {FileSystemEntry[]} */
    const some = await new Promise((resolve, reject) => {
      reader.readEntries(resolve, reject);
    });
    if (some.length === 0) return all;
    all.push(...some);
  }
}
