import { type BookType, type CellObject, utils, type WorkBook, write } from '@e965/xlsx';
import { buildZip } from './zip-builder.ts';

/** A small workbook with some rows. */
export function makeBook(rows: ReadonlyArray<ReadonlyArray<string | number>> = [['a', 1]]): WorkBook {
  const book = utils.book_new();
  const cells = rows.map((row) => [...row]) as Array<Array<CellObject | string | number>>;
  utils.book_append_sheet(book, utils.aoa_to_sheet(cells), 'Sheet');
  return book;
}

/** The bytes of a workbook in a format; of Excel 3 and 4, too, which the library's declarations leave out. */
export function bytesOf(book: WorkBook, format: BookType | 'biff3' | 'biff4'): Buffer {
  const bookType = format as BookType;
  const written: unknown = write(book, { type: 'buffer', bookType, compression: true });
  return typeof written === 'string' ? Buffer.from(written) : Buffer.from(written as Uint8Array);
}

/** Makes a zip of parts, by name. */
export function zipOf(parts: Readonly<Record<string, string | Buffer>>): Buffer {
  const entries = Object.entries(parts);
  return buildZip(entries.map(([name, data]) => ({ name, data, method: data.length < 1_000_000 ? 8 : 0 })));
}

const CONTENT_TYPES = `<?xml version="1.0" encoding="UTF-8"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
<Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>
<Override PartName="/xl/worksheets/sheet1.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/>
</Types>`;
const WORKBOOK = `<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets><sheet name="S" sheetId="1" r:id="rId1"/></sheets></workbook>`;
const RELATIONSHIPS = `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet1.xml"/></Relationships>`;

/** The parts of a minimal .xlsx with one sheet. */
export function partsWith(
  sheet: string,
  more: Readonly<Record<string, string | Buffer>> = {},
): Record<string, string | Buffer> {
  return {
    '[Content_Types].xml': CONTENT_TYPES,
    'xl/workbook.xml': WORKBOOK,
    'xl/_rels/workbook.xml.rels': RELATIONSHIPS,
    'xl/worksheets/sheet1.xml': sheet,
    ...more,
  };
}

/** A sheet of a minimal .xlsx. */
export function sheetOf(inside: string): string {
  return `<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">${inside}</worksheet>`;
}
