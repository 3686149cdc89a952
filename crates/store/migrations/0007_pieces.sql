-- What an execution met lies beside the event it was committed with: one row instead of two in two trees. `piece` is its place among
-- all that the execution met, `total` counts the bytes until here. What comes without such an event is in `entries`.
ALTER TABLE events ADD COLUMN execution TEXT;
ALTER TABLE events ADD COLUMN piece INTEGER;
ALTER TABLE events ADD COLUMN total INTEGER;
ALTER TABLE events ADD COLUMN sealed BLOB;

-- The record of its session after which a recording began: none of its pieces lies before.
ALTER TABLE recordings ADD COLUMN since INTEGER;
