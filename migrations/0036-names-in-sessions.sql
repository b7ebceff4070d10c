-- Nothing looks for participants by the names in each session any more. In a file of its own: here it takes the table alone for a moment,
-- and in 0031, where writers of the table already waited for it, each turn that had locked its session and it waited for each other.
drop index if exists sessions_by_participant;
