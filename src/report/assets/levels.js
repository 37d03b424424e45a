// Coarse cells of a recording that is too long for a page: per cell of moments the lowest and highest totals and
// the bands at the highest. Owns what is known where no rows are.

class Levels {
  constructor(blob, header) {
    this.width = header.width;
    this.cells = header.cells;
    this.starts = header.start_us ? blob.column(header.start_us) : null;
    for (const key of ['first', 'last', 'lowest', 'highest', 'active', 'reserved']) this[key] = blob.column(header[key]);
    this.highestAt = blob.column(header.highest_at);
    this.header = header.bands;
    this.blob = blob;
    this.cache = new Map();
  }

  cellOf(moment) {
    return clamp(Math.floor(moment / this.width), 0, this.cells - 1);
  }

  // The cell with the highest total among those that touch [m0, m1).
  highestCell(m0, m1) {
    let best = this.cellOf(m0);
    const last = this.cellOf(m1 - 1);
    for (let cell = best + 1; cell <= last; cell++) if (this.highest[cell] > this.highest[best]) best = cell;
    return best;
  }

  lowestIn(m0, m1) {
    let least = Infinity;
    for (let cell = this.cellOf(m0), last = this.cellOf(m1 - 1); cell <= last; cell++) {
      least = Math.min(least, this.lowest[cell]);
    }
    return least;
  }

  reservedIn(m0, m1) {
    let most = 0;
    for (let cell = this.cellOf(m0), last = this.cellOf(m1 - 1); cell <= last; cell++) most = Math.max(most, this.reserved[cell]);
    return most;
  }

  // Bands of one grouping: `atHighest[band][cell]`, `ownHighest[band][cell]`.
  bands(name) {
    if (!this.cache.has(name)) {
      const header = this.header[name];
      const read = refs => refs.map(ref => this.blob.column(ref));
      this.cache.set(name, { keys: header.keys, names: header.names, atHighest: read(header.at_highest),
        ownHighest: read(header.own_highest) });
    }
    return this.cache.get(name);
  }

  // Every band's own maximum over the cells that touch [m0, m1), with the cell it lies in.
  maxima(name, m0, m1) {
    const [first, last] = [this.cellOf(m0), this.cellOf(m1 - 1)];
    return this.bands(name).ownHighest.map(column => {
      let best = first;
      for (let cell = first + 1; cell <= last; cell++) if (column[cell] > column[best]) best = cell;
      return { bytes: column[best], cell: best };
    });
  }
}
