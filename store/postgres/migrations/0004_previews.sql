-- What a dry run showed when a question was opened (rule D1); empty: the tool has none.
ALTER TABLE approvals ADD COLUMN preview TEXT COLLATE "C" NOT NULL DEFAULT '';
