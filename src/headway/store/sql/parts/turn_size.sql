-- How many jobs of one key are ready at a time. Turns between keys stay short, however high the limit of a key is.
32
