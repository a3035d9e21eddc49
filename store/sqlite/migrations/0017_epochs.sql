-- Epochs of the store (rule J2). Without a row it is the first.
CREATE TABLE epochs (
  epoch INTEGER PRIMARY KEY,
  at    INTEGER NOT NULL,
  who   TEXT NOT NULL,  -- JSON
  why   TEXT NOT NULL
);
