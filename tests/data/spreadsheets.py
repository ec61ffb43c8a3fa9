"""Spreadsheets made by hand, as small as their formats allow, so that they can say what no program
would write."""

import struct
import zipfile

SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
KINDS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
OFFICE = "urn:oasis:names:tc:opendocument:xmlns"


def xlsx(path, cells, more=(), sheets=("one",)):
    """An .xlsx: texts and numbers by the names of their cells, the same in each sheet. `more` are
    other parts of the zip."""
    rows = {}
    for name, value in cells.items():
        row = int("".join(letter for letter in name if letter.isdigit()))
        kind = "inlineStr" if isinstance(value, str) else "b" if isinstance(value, bool) else "n"
        body = f"<is><t>{value}</t></is>" if isinstance(value, str) else f"<v>{value + 0}</v>"
        rows.setdefault(row, []).append(f'<c r="{name}" t="{kind}">{body}</c>')
    lines = "".join(f'<row r="{row}">{"".join(of_row)}</row>' for row, of_row in rows.items())
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        top = f'<Relationship Id="r" Type="{KINDS}/officeDocument" Target="xl/workbook.xml"/>'
        file.writestr("_rels/.rels", f'<Relationships xmlns="{PACKAGE}">{top}</Relationships>')
        each = (
            f'<sheet name="{name}" sheetId="{n}" r:id="r1"/>' for n, name in enumerate(sheets, 1)
        )
        listed = f"<sheets>{''.join(each)}</sheets>"
        file.writestr(
            "xl/workbook.xml", f'<workbook xmlns="{SHEET}" xmlns:r="{KINDS}">{listed}</workbook>'
        )
        link = f'<Relationship Id="r1" Type="{KINDS}/worksheet" Target="worksheets/s1.xml"/>'
        file.writestr(
            "xl/_rels/workbook.xml.rels", f'<Relationships xmlns="{PACKAGE}">{link}</Relationships>'
        )
        file.writestr(
            "xl/worksheets/s1.xml",
            f'<worksheet xmlns="{SHEET}"><sheetData>{lines}</sheetData></worksheet>',
        )
        for name, content in more:
            file.writestr(name, content)
    return path


def ods_cell(value, repeated=1):
    """A number in so many columns; none where it is None."""
    often = f'table:number-columns-repeated="{repeated}"'
    if value is None:
        return f"<table:table-cell {often}/>"
    if isinstance(value, bool):
        said = str(value).lower()
        return (
            f'<table:table-cell office:value-type="boolean" office:boolean-value="{said}" {often}/>'
        )
    return f'<table:table-cell office:value-type="float" office:value="{value}" {often}/>'


def ods_row(cells, repeated=1):
    """So many equal rows."""
    return f'<table:table-row table:number-rows-repeated="{repeated}">{cells}</table:table-row>'


def ods(path, rows):
    """An .ods of one sheet."""
    names = " ".join(f'xmlns:{name}="{OFFICE}:{name}:1.0"' for name in ("office", "table", "text"))
    body = (
        "<office:spreadsheet><table:table "
        f'table:name="one">{rows}</table:table></office:spreadsheet>'
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        file.writestr(
            "META-INF/manifest.xml", f'<manifest:manifest xmlns:manifest="{OFFICE}:manifest:1.0"/>'
        )
        file.writestr(
            "content.xml",
            "<office:document-content "
            f"{names}><office:body>{body}</office:body></office:document-content>",
        )
    return path


def xls(path, cells):
    """An .xls of one sheet: numbers by row and column, counted from 0."""
    record = lambda kind, body: struct.pack("<HH", kind, len(body)) + body
    begin = lambda what: record(0x809, struct.pack("<HHHHII", 0x600, what, 0, 0, 0, 0))
    end = record(0x0A, b"")
    numbers = b"".join(
        record(0x203, struct.pack("<HHHd", *place, 0, value)) for place, value in cells.items()
    )
    listed = lambda at: record(0x85, struct.pack("<IBBBB", at, 0, 0, 3, 0) + b"one")
    at = len(begin(5) + listed(0) + end)
    stream = begin(5) + listed(at) + end + begin(0x10) + numbers + end
    path.write_bytes(_compound(stream))
    return path


def _compound(stream):
    """A stream `Workbook` in a compound file of 512-byte sectors: their table, the folder, the
    stream."""
    last, free, table = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD
    stream = stream.ljust(4096, b"\0")  # shorter ones have sectors of another size
    count = -(-len(stream) // 512)
    sectors = [table, last, *range(3, count + 2), last]

    def entry(name, kind, start, size, child=free):
        name = name.encode("utf-16-le")
        said = struct.pack("<HBBIII", len(name) + 2, kind, 1, free, free, child)
        return (
            name.ljust(64, b"\0") + said + bytes(16) + struct.pack("<IQQIQ", 0, 0, 0, start, size)
        )

    head = (
        bytes.fromhex("D0CF11E0A1B11AE1")
        + bytes(16)
        + struct.pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6)
        + bytes(6)
    )
    head += struct.pack("<10I", 0, 1, 1, 0, 4096, last, 0, last, 0, 0) + b"\xff" * (4 * 108)
    sectors += [free] * (128 - len(sectors))
    folder = (entry("Root Entry", 5, last, 0, 1) + entry("Workbook", 2, 2, len(stream))).ljust(
        512, b"\0"
    )
    return head + struct.pack("<128I", *sectors) + folder + stream.ljust(512 * count, b"\0")
